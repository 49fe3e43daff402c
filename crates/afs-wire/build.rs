//! Turns the interface files into the crate's types and stubs.

fn main() {
    let interfaces =
        ["xg/fileserver.xg", "xg/cache_manager.xg", "xg/location.xg", "xg/protection.xg", "xg/volume.xg"];
    if let Err(error) = rxgen::Builder::new().compile(&interfaces, "wire.rs") {
        panic!("{error}");
    }
}
