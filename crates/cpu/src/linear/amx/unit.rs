//! The tile unit: its configuration and its instructions, which the standard library does not offer.

use std::arch::asm;

/// The layout that `ldtilecfg` reads.
#[repr(C, align(64))]
struct TileConfig {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    bytes_per_row: [u16; 16],
    rows: [u8; 16],
}

/// Sets up C tiles 0 and 1, A tiles 4 and 5, B tiles 6 and 7. All tiles become zero.
///
/// With `second > 0` tiles 1 and 5 belong to a second row tile.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn configure(first: usize, second: usize) {
    let (first, other) = (first as u8, if second > 0 { second } else { first } as u8);
    let mut config =
        TileConfig { palette: 1, start_row: 0, reserved: [0; 14], bytes_per_row: [0; 16], rows: [0; 16] };
    config.bytes_per_row[..8].copy_from_slice(&[64, 64, 0, 0, 64, 64, 64, 64]);
    config.rows[..8].copy_from_slice(&[first, other, 0, 0, first, other, 16, 16]);
    // SAFETY: the configuration is valid for palette 1, and the process may use tiles.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &config, options(readonly, nostack, preserves_flags)) };
}

/// `tilezero` of a C tile.
macro_rules! zero {
    ($tile:literal) => {
        asm!(concat!("tilezero tmm", $tile), options(nomem, nostack, preserves_flags))
    };
}

/// `tileloadd` of sixteen dense 64-byte rows.
macro_rules! load {
    ($tile:literal, $from:expr) => {
        asm!(
            concat!("tileloadd tmm", $tile, ", [{p} + {s}*1]"),
            p = in(reg) $from,
            s = in(reg) 64usize,
            options(readonly, nostack, preserves_flags)
        )
    };
}

/// `C += A B`.
macro_rules! multiply {
    ($c:literal, $a:literal, $b:literal) => {
        asm!(concat!("tdpbf16ps tmm", $c, ", tmm", $a, ", tmm", $b), options(nomem, nostack, preserves_flags))
    };
}

/// `tilestored` of the tile's rows of 64 bytes, `$stride` bytes apart.
macro_rules! store {
    ($tile:literal, $to:expr, $stride:expr) => {
        asm!(
            concat!("tilestored [{p} + {s}*1], tmm", $tile),
            p = in(reg) $to,
            s = in(reg) $stride,
            options(nostack, preserves_flags)
        )
    };
}

/// `tilerelease`.
macro_rules! release {
    () => {
        asm!("tilerelease", options(nomem, nostack, preserves_flags))
    };
}

pub(super) use {load, multiply, release, store, zero};
