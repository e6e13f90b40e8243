//! `wirelane-bench`: the program of `wirelane bench`. Its code is in the library.

fn main() -> std::process::ExitCode {
    wirelane_bench::main()
}
