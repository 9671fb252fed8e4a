//! Where results and notes go.
