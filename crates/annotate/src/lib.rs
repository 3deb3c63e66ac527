//! unspool annotate
