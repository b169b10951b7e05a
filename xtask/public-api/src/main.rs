//! Lists the public interface of a library from the JSON that rustdoc writes of it: one item a line, without what blanket
//! implementations, auto traits and derives add. It is a program of its own because it needs few dependencies.

use std::env;
use std::io::{self, Write};

use anyhow::Context;

fn main() -> anyhow::Result<()> {
    let json = env::args_os().nth(1).context("usage: public-api-lines RUSTDOC_JSON")?;
    let interface = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()?;
    write!(io::stdout(), "{interface}")?;
    Ok(())
}
