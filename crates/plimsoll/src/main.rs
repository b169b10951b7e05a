//! The program `plimsoll`: the application with the in-tree plugins alone.

use std::process::ExitCode;

fn main() -> ExitCode {
    plimsoll::App::new().run()
}
