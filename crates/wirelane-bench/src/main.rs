//! `wirelane-bench`: what `wirelane bench` becomes. All of it is in the library.

fn main() -> std::process::ExitCode {
    wirelane_bench::main()
}
