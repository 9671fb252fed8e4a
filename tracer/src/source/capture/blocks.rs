//! A capture file's bytes, block by block (pcapng) or packet by packet (pcap).

use std::io::{self, Read};

/// Read at a time, bytes.
const PIECE: usize = 1 << 20;

/// A window on a file that moves on, as large as its largest block.
#[derive(Debug)]
pub(super) struct Window<R> {
    input: R,
    bytes: Vec<u8>,
    /// What was taken of `bytes`, and how many of them are the file's.
    taken: usize,
    filled: usize,
    /// Where `bytes` begin in the file.
    base: u64,
}

impl<R: Read> Window<R> {
    /// `first` was read of it already.
    pub(super) fn new(input: R, first: &[u8]) -> Self {
        Self {
            input,
            bytes: first.to_vec(),
            taken: 0,
            filled: first.len(),
            base: 0,
        }
    }

    /// Where the next byte stands in the file.
    pub(super) fn at(&self) -> u64 {
        self.base + self.taken as u64
    }

    /// How much of the file was read.
    pub(super) fn read(&self) -> u64 {
        self.base + self.filled as u64
    }

    /// The next bytes, at least so many; `None`: there are not so many left.
    pub(super) fn peek(&mut self, len: usize) -> io::Result<Option<&[u8]>> {
        while self.filled - self.taken < len {
            if !self.fill(len)? {
                return Ok(None);
            }
        }
        Ok(Some(&self.bytes[self.taken..self.filled]))
    }

    /// The next bytes, which were looked at; the window moves behind them.
    pub(super) fn take(&mut self, len: usize) -> &[u8] {
        let from = self.taken;
        self.taken = (from + len).min(self.filled);
        &self.bytes[from..self.taken]
    }

    /// Whether nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.taken == self.filled
    }

    /// Reads on; `false` at the end of the file.
    fn fill(&mut self, len: usize) -> io::Result<bool> {
        self.bytes.copy_within(self.taken..self.filled, 0);
        self.base += self.taken as u64;
        self.filled -= self.taken;
        self.taken = 0;
        let size = PIECE.max(len);
        if self.bytes.len() < size {
            self.bytes.resize(size, 0);
        }
        loop {
            match self.input.read(&mut self.bytes[self.filled..]) {
                Ok(got) => {
                    self.filled += got;
                    return Ok(got > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_moves_on_and_knows_where_it_is() {
        let file: Vec<u8> = (0..=255).cycle().take(3 * PIECE).collect();
        let mut window = Window::new(&file[5..], &file[..5]);
        let mut at = 0;
        while let Some(bytes) = window.peek(1000).unwrap() {
            assert_eq!(bytes[..1000], file[at..at + 1000]);
            assert_eq!(window.take(1000).len(), 1000);
            at += 1000;
            assert_eq!(window.at(), at as u64);
        }
        assert_eq!(window.read(), file.len() as u64);
        assert!(!window.is_empty());
    }
}
