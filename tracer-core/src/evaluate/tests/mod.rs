mod oracles;
