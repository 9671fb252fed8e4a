//! The entries, one file per tap. Each states the kernel prototype it relies on.

mod direct;
mod drops;
mod passing;
mod receive;
mod rules;
mod sockets;
mod tc;
mod transmit;
