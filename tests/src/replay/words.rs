//! What made-up rules and packets are made of: few enough values that they often meet.

/// Where packets come from, behind the pod's device.
pub(super) const SOURCES: &[&str] = &["10.12.3.4", "10.12.3.5", "10.12.3.70", "10.12.3.200"];
/// Where they go to, behind the node's `eth0`; nobody answers there.
pub(super) const TARGETS: &[&str] = &[
    "10.40.1.1",
    "10.40.1.77",
    "10.40.2.2",
    "172.20.0.9",
    "203.0.113.5",
    "198.51.100.7",
];
/// What destinations are translated to: more of the same.
pub(super) const ELSEWHERE: &[&str] = &["10.41.1.1", "10.40.2.2", "203.0.113.77", "198.51.100.9"];
/// What sources are translated to.
pub(super) const ALIASES: &[&str] = &["10.99.0.1", "10.99.0.2", "10.99.0.3", "10.100.0.5"];
/// Prefixes that hold some of them.
pub(super) const PREFIXES: &[&str] = &[
    "10.0.0.0/8",
    "10.12.0.0/16",
    "10.12.3.4/32",
    "10.12.3.0/26",
    "10.12.3.64/26",
    "10.40.0.0/16",
    "10.40.1.0/24",
    "10.40.2.2/32",
    "10.41.0.0/16",
    "10.99.0.0/24",
    "172.16.0.0/12",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "203.0.113.5/32",
    "128.0.0.0/1",
];
/// Destination ports of packets.
pub(super) const PORTS: &[u16] = &[53, 80, 443, 8080, 30080];
/// Ports as rules name them.
pub(super) const PORT_RANGES: &[&str] = &["53", "80", "443", "1:1023", "8000:8100", "30000:32767"];
/// Marks that rules set and test.
pub(super) const MARKS: &[u32] = &[0x1, 0x20, 0x4000, 0x8000, 0x4001, 0x14000];
/// Masks for them.
pub(super) const MASKS: &[u32] = &[0x1, 0x4000, 0xc000, 0xf000, 0xffff, 0xffff_ffff];
