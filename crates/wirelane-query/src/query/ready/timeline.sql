-- Flows, packets and bytes over time, by the start of flows.
SELECT
    date_bin($bucket, flow_start, TIMESTAMP '1970-01-01T00:00:00Z') AS time,
    count(*) AS flows,
    sum(packets + coalesce(reverse_packets, 0)) AS packets,
    sum(octets + coalesce(reverse_octets, 0)) AS bytes
FROM flows
WHERE $span
GROUP BY 1
ORDER BY 1
