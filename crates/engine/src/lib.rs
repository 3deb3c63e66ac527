//! unspool engine
