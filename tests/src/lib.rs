//! Labs: network-namespace topologies with real rules and real traffic.
