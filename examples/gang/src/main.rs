//! A scheduler with the plugin: the program `plimsoll`, whose configurations can also name `Gang`.

use std::process::ExitCode;

fn main() -> ExitCode {
    plimsoll::App::new().with_plugin(gang::entry()).run()
}
