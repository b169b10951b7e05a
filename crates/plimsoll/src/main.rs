//! The program `plimsoll`: the application with only the in-tree plugins.

use std::process::ExitCode;

fn main() -> ExitCode {
    plimsoll::App::new().run()
}
