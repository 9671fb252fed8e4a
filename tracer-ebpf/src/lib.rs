//! Packet parsing shared by every tap; compiles for the host so that it can be tested there.
#![no_std]
