use wirelane_send::kernel::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let len: usize = args[2].parse().unwrap();
    let secs: u64 = args[3].parse().unwrap();
    let mut frame = vec![0u8; len];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    frame[12..14].copy_from_slice(&[8, 0]);
    let sender = LiveSender::new(&args[1], &[frame]).unwrap();
    let s = sender.start(Pace { cpu: Some(0), ..Default::default() }).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(secs));
    let sent = s.stop().unwrap();
    println!("{:.0} pps  {:?}", sent.frames as f64 / sent.elapsed.as_secs_f64(), sent);
}
