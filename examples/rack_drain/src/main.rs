//! A scheduler with the plugin: the program `plimsoll`, whose configurations can also name `RackDrain`.

use std::process::ExitCode;

fn main() -> ExitCode {
    plimsoll::App::new().with_plugin(rack_drain::entry()).run()
}
