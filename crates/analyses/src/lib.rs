//! unspool analyses
