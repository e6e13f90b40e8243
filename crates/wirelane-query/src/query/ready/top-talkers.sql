-- Hosts that exchanged the most bytes.
SELECT
    source,
    destination,
    count(*) AS flows,
    sum(packets + coalesce(reverse_packets, 0)) AS packets,
    sum(octets + coalesce(reverse_octets, 0)) AS bytes
FROM flows
WHERE $span
GROUP BY source, destination
ORDER BY bytes DESC, source, destination
LIMIT $top
