//! The entries, one file per tap. Each states the kernel prototype it relies on.

mod receive;
mod sockets;
mod tc;
mod transmit;
