-- Sources that tried many hosts or ports, most of them in vain.
SELECT
    source,
    count(*) AS flows,
    count(DISTINCT destination) AS hosts,
    count(DISTINCT destination_port) AS ports,
    count(*) FILTER (WHERE coalesce(reverse_payload, 0) = 0) AS unanswered
FROM flows
WHERE protocol IN (6, 17) AND $span
GROUP BY source
HAVING greatest(count(DISTINCT destination), count(DISTINCT destination_port)) >= 20
    AND count(*) FILTER (WHERE coalesce(reverse_payload, 0) = 0) * 2 > count(*)
ORDER BY unanswered DESC, source
LIMIT $top
