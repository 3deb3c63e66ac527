//! unspool binary
