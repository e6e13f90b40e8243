//! Arguments that change packets before they are sent.

use clap::Args;
use wirelane::wire::MacAddr;
use wirelane::{Error, Result};
use wirelane_gen::rewrite::{Prefix, Rewrite, RewriteField, Rule, TtlRule, VlanRule};

/// What changes in packets on the way. Checksums follow.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Rewriting")]
pub(crate) struct RewriteArgs {
    /// Set the source MAC address
    #[arg(long, value_name = "MAC")]
    set_mac_src: Option<MacAddr>,
    /// Set the destination MAC address
    #[arg(long, value_name = "MAC")]
    set_mac_dst: Option<MacAddr>,
    /// Replace one MAC address by another, also in ARP: 02:00:00:00:00:01=02:00:00:00:00:02; with
    /// src: or dst: in front only of senders or receivers
    #[arg(long, value_name = "MAC=MAC", value_parser = Rule::map_mac)]
    map_mac: Vec<Rule>,
    /// Put a VLAN tag in front (push:100, or with priority push:100/5), remove the outermost (pop)
    /// or give it another identifier (set:7)
    #[arg(long, value_name = "CHANGE")]
    vlan: Option<VlanRule>,
    /// Replace the prefix of IP addresses: 10.0.0.0/8=172.0.0.0/8; with src: or dst: in front only
    /// of senders or receivers
    #[arg(long, value_name = "PREFIX=PREFIX", value_parser = Rule::map_ip)]
    map_ip: Vec<Rule>,
    /// Replace every unicast IP address by a pseudonym: one host stays one host, and prefixes are
    /// kept. The same seed, a number, leads to the same pseudonyms
    #[arg(long, value_name = "SEED")]
    random_ip: Option<u64>,
    /// Replace ports: one (80=8080), all (=9), or add to them (+1000); with src: or dst: in front
    /// only of senders or receivers
    #[arg(long, value_name = "CHANGE", value_parser = Rule::port, allow_hyphen_values = true)]
    port: Vec<Rule>,
    /// Set the TTL or hop limit (64) or change it (-1)
    #[arg(long, value_name = "CHANGE", allow_hyphen_values = true)]
    ttl: Option<TtlRule>,
    /// Give hosts other addresses in every loop, so that no flow comes again for 2^32 loops; with
    /// prefixes, only hosts of these, which stay in their prefix (of 15 bits at most, for so many
    /// loops)
    #[arg(long, value_name = "PREFIX", num_args = 0..=1, require_equals = true, value_delimiter = ',')]
    unique: Option<Vec<Prefix>>,
    /// Change packets in tunnels as well: IP in IP, GRE, VXLAN, GENEVE
    #[arg(long)]
    tunnels: bool,
}

impl RewriteArgs {
    /// The rules.
    ///
    /// # Errors
    /// They contradict each other.
    pub(crate) fn rewrite(&self) -> Result<Rewrite> {
        let mac = |side, to: Option<MacAddr>| to.map(|to| Rule::Mac { side, from: None, to });
        // Rules for named values precede the rules that apply to all packets.
        let rules = self.map_mac.iter().chain(&self.map_ip).chain(&self.port).cloned();
        let rules = rules
            .chain(mac(RewriteField::Source, self.set_mac_src))
            .chain(mac(RewriteField::Destination, self.set_mac_dst))
            .chain(self.vlan.map(Rule::Vlan))
            .chain(self.random_ip.map(|seed| Rule::Pseudonyms { seed }))
            .chain(self.ttl.map(Rule::Ttl));
        let seed = self.random_ip.unwrap_or_default();
        let unique = self.unique.clone().map(|within| Rule::Unique { seed, within });
        let rules: Vec<_> = rules.chain(unique).collect();
        let rewrite = Rewrite::new(&rules);
        let rewrite = rewrite.map_err(|error| Error::usage("rewriting", error.to_string()))?;
        Ok(rewrite.with_tunnels(self.tunnels))
    }
}
