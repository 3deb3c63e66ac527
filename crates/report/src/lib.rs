//! unspool report
