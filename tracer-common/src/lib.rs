//! tracer-common
