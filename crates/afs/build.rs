//! Turns the interface files into the types and stubs of `wire`.

fn main() {
    let interfaces = ["xg/fileserver.xg"];
    if let Err(error) = rxgen::Builder::new().compile(&interfaces, "wire.rs") {
        panic!("{error}");
    }
}
