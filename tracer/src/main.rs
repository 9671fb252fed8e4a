//! tracer
fn main() {}
