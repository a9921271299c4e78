SELECT
    visit,
    sensor_id,
    amount,
    visited_at,
    locations.city AS city,
    _partition_id,
    _partition_offset
FROM bronze.visits
LEFT JOIN reference.locations USING (sensor_id)
