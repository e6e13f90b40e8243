//! The `wirelane` command. Its code is in the library, which compiles in parallel with others.

fn main() -> std::process::ExitCode {
    wirelane_cli::main()
}
