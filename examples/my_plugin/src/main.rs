//! A scheduler with the plugin: the program `plimsoll`, whose configurations can also name `MyPlugin`.

use std::process::ExitCode;

fn main() -> ExitCode {
    plimsoll::App::new().with_plugin(my_plugin::entry()).run()
}
