//! tracer
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the commands that use it are not wired yet")
)]
mod kernel;

fn main() {}
