//! Tables that may forget: a word for each of so many places, found by a hash. They are asked before a map is,
//! because nothing is cheaper. Where two share a place they drive each other out.

use core::cell::UnsafeCell;

/// So many words, as many as a power of two says. What is said of `get` and `put` holds for all CPUs: words are
/// read and written whole, and of two that are written at the same time either will do.
pub(crate) struct Words<T, const PLACES: usize>(UnsafeCell<[T; PLACES]>);

// SAFETY: see `Words`.
unsafe impl<T: Send, const PLACES: usize> Sync for Words<T, PLACES> {}

impl<T: Copy, const PLACES: usize> Words<T, PLACES> {
    pub(crate) const fn new(word: T) -> Self {
        Self(UnsafeCell::new([word; PLACES]))
    }

    /// The word at the place of `hash`.
    #[inline(always)]
    pub(crate) fn get(&self, hash: u64) -> T {
        // SAFETY: inside the table, which is always readable.
        unsafe { self.place(hash).read_volatile() }
    }

    /// Puts a word there.
    #[inline(always)]
    pub(crate) fn put(&self, hash: u64, word: T) {
        // SAFETY: inside the table, which lies in writable memory.
        unsafe { self.place(hash).write_volatile(word) };
    }

    #[inline(always)]
    fn place(&self, hash: u64) -> *mut T {
        let place = (hash >> (64 - PLACES.ilog2())) as usize % PLACES;
        // SAFETY: inside the table.
        unsafe { self.0.get().cast::<T>().add(place) }
    }
}

/// Adds a word to a hash, so that the upper bits depend on all of it.
#[inline(always)]
pub(crate) fn add(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ hash >> 32
}

/// The hash of the address of a structure that has cache lines of its own.
#[inline(always)]
pub(crate) fn of_address(address: u64) -> u64 {
    add(0, address >> 6)
}
