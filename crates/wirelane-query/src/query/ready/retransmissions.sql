-- Services whose TCP segments were sent again most often.
SELECT
    source,
    destination,
    destination_port AS port,
    sum(packets + coalesce(reverse_packets, 0)) AS packets,
    sum(coalesce(retransmissions, 0) + coalesce(reverse_retransmissions, 0)) AS retransmissions,
    round(100.0 * sum(coalesce(retransmissions, 0) + coalesce(reverse_retransmissions, 0))
        / sum(packets + coalesce(reverse_packets, 0)), 2) AS percent,
    sum(coalesce(out_of_order, 0) + coalesce(reverse_out_of_order, 0)) AS out_of_order,
    sum(coalesce(zero_windows, 0) + coalesce(reverse_zero_windows, 0)) AS zero_windows
FROM flows
WHERE protocol = 6 AND $span
GROUP BY source, destination, destination_port
HAVING sum(coalesce(retransmissions, 0) + coalesce(reverse_retransmissions, 0)) > 0
ORDER BY retransmissions DESC, source, destination, port
LIMIT $top
