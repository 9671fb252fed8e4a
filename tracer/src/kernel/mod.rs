//! What srctrace asks of the kernel: the only user of aya and of bpf(2).

pub(crate) mod btf;
pub(crate) mod features;
pub(crate) mod offsets;
