//! The components of extended state that hold vector and mask registers, by their numbers: the bits in
//! XCR0.
//!
//! Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, section 13.1.

/// The low 128 bits of xmm0 to xmm15.
pub const SSE: u32 = 1;
/// Bits 128 to 255 of ymm0 to ymm15.
pub const AVX: u32 = 2;
/// The mask registers, k0 to k7.
pub const OPMASK: u32 = 5;
/// Bits 256 to 511 of zmm0 to zmm15.
pub const ZMM_HI256: u32 = 6;
/// The whole of zmm16 to zmm31.
pub const HI16_ZMM: u32 = 7;
