//! Abort codes of a cell's servers: location, protection and volume, each from its own error table.

/// No volume of this number or name (`VL_NOENT`).
pub const VL_NOENT: i32 = VL + 4;
/// No name of a volume (`VL_BADNAME`).
pub const VL_BADNAME: i32 = VL + 7;
/// The place is empty (`VL_BADINDEX`).
pub const VL_BADINDEX: i32 = VL + 8;
/// Volumes are of three kinds (`VL_BADVOLTYPE`).
pub const VL_BADVOLTYPE: i32 = VL + 9;
/// The caller may not change what the server knows (`VL_PERM`).
pub const VL_PERM: i32 = VL + 26;
/// No server has this number (`VL_INDEXERANGE`).
pub const VL_INDEXERANGE: i32 = VL + 29;
/// Nothing to look for, or too much at once (`VL_BADMASK`).
pub const VL_BADMASK: i32 = VL + 31;

/// No user or group has the name (`PRNOENT`).
pub const PRNOENT: i32 = PR + 4;
/// The caller may not do that (`PRPERM`).
pub const PRPERM: i32 = PR + 5;
/// Users have no members (`PRNOTGROUP`).
pub const PRNOTGROUP: i32 = PR + 6;
/// A parameter that cannot be (`PRBADARG`).
pub const PRBADARG: i32 = PR + 9;

/// No such partition (`VOLSERILLEGAL_PARTITION`).
pub const VOLSERILLEGAL_PARTITION: i32 = VOLSER + 5;
/// The caller may not change volumes (`VOLSERBAD_ACCESS`).
pub const VOLSERBAD_ACCESS: i32 = VOLSER + 7;
/// No such volume (`VOLSERNOVOL`).
pub const VOLSERNOVOL: i32 = VOLSER + 15;

// Of each table's first entry.
const VL: i32 = 363_520;
const PR: i32 = 267_264;
const VOLSER: i32 = 1_492_325_120;
