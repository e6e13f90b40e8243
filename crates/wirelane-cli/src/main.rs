//! The `wirelane` command: all of it is in the library, which is compiled meanwhile.

fn main() -> std::process::ExitCode {
    wirelane_cli::main()
}
