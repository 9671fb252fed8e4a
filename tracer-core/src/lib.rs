//! tracer-core
