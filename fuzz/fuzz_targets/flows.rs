//! Parses arbitrary text as a flow file. An error names a line of the text. The packets of an
//! accepted file have room for their headers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wirelane_gen::otg::parse;
use wirelane_gen::signature;

fuzz_target!(|text: &str| {
    let asked = |metrics: &wirelane_gen::otg::Metrics| {
        if metrics.enable { signature::LEN } else { 0 }
    };
    match parse(text, &asked) {
        Ok(config) => {
            for flow in config.flows.iter().take(16) {
                assert!(flow.tx < config.ports.len());
                assert!(flow.rx.iter().all(|port| *port < config.ports.len()));
                for k in [0, 1, 1000] {
                    let mut packet = vec![0; flow.stream.lengths.at(k)];
                    assert!(packet.len() >= flow.stream.template.min_len());
                    flow.stream.template.write(k, &mut packet);
                }
            }
        }
        Err(error) => {
            // YAML ends a line at LF, CR or both (YAML 1.2, 5.4). The end of the text may be named.
            let lines = text.replace("\r\n", "\n").split(['\n', '\r']).count();
            let line = error.place().map_or(0, |place| place.line);
            assert!(line >= 1 && line <= lines + 1, "{error:?}, {lines} lines");
            assert_eq!(error.to_string().lines().count(), 1);
        }
    }
});
