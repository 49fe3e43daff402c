//! Abort codes of a cell's servers: location, protection and volume, each from its own error table.

/// VL_NOENT: no volume has this number or name.
pub const VL_NOENT: i32 = VL + 4;
/// VL_BADNAME: the name cannot be a volume's.
pub const VL_BADNAME: i32 = VL + 7;
/// VL_BADINDEX: the place in the table is empty.
pub const VL_BADINDEX: i32 = VL + 8;
/// VL_BADVOLTYPE: the volume type is none of the three.
pub const VL_BADVOLTYPE: i32 = VL + 9;
/// VL_PERM: the caller may not change the volume location database.
pub const VL_PERM: i32 = VL + 26;
/// VL_INDEXERANGE: no server has this number.
pub const VL_INDEXERANGE: i32 = VL + 29;
/// VL_BADMASK: the mask of a search has unknown bits, or not exactly one bit where one is needed.
pub const VL_BADMASK: i32 = VL + 31;

/// PRNOENT: no user or group has the name.
pub const PRNOENT: i32 = PR + 4;
/// PRPERM: the caller may not do that.
pub const PRPERM: i32 = PR + 5;
/// PRNOTGROUP: the entry is a user, which has no members.
pub const PRNOTGROUP: i32 = PR + 6;
/// PRBADARG: a parameter has no valid value.
pub const PRBADARG: i32 = PR + 9;

/// VOLSERILLEGAL_PARTITION: the server has no such partition.
pub const VOLSERILLEGAL_PARTITION: i32 = VOLSER + 5;
/// VOLSERBAD_ACCESS: the caller may not change volumes.
pub const VOLSERBAD_ACCESS: i32 = VOLSER + 7;
/// VOLSERNOVOL: the server has no such volume.
pub const VOLSERNOVOL: i32 = VOLSER + 15;

// Of each table's first entry.
const VL: i32 = 363_520;
const PR: i32 = 267_264;
const VOLSER: i32 = 1_492_325_120;
