use wirelane_os::bpf::*;
fn main() {
    let name = std::env::args().nth(1).unwrap();
    let insns = [Insn::mov(Reg::R0, 1), Insn::exit()];
    let p = Program::load(&Load::new(ProgramType::Xdp, "drop", &insns)).unwrap();
    let _l = Link::attach(wirelane_os::iface::index(&name).unwrap(), &p, XdpMode::Native).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(7200));
}
