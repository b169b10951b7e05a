//! A scheduler with the plugin: the program `plimsoll`, whose configurations can also name `NetworkAttach`.

use std::process::ExitCode;

fn main() -> ExitCode {
    plimsoll::App::new().with_plugin(network_attach::entry()).run()
}
