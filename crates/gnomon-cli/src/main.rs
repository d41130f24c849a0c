//! The program `gnomon`.
fn main() {}
