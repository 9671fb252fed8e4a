//! tracer
#[expect(
    dead_code,
    unused_imports,
    reason = "the commands that use it are not wired yet"
)]
mod system;

fn main() {}
