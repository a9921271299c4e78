-- One row a vehicle, metric and minute. The average is taken over decimals, whose sum
-- does not depend on the order of the rows; first and last have an order.
SELECT
    time_bucket(INTERVAL 1 MINUTE, "recordedAt")                            AS minute,
    tenant_id,
    device_id,
    metric,
    count(*)                                                                AS readings,
    avg(TRY_CAST(value AS DECIMAL(18, 6)))                                  AS avg_value,
    min(value)                                                              AS min_value,
    max(value)                                                              AS max_value,
    first(value ORDER BY "recordedAt", _partition_id, _partition_offset)    AS first_value,
    last(value ORDER BY "recordedAt", _partition_id, _partition_offset)     AS last_value
FROM silver.fleet
GROUP BY time_bucket(INTERVAL 1 MINUTE, "recordedAt"), tenant_id, device_id, metric
