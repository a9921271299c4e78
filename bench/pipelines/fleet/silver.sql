-- One row an event. The event time keeps its name.
SELECT
    "tenantId" AS tenant_id,
    "deviceId" AS device_id,
    "eventId"  AS event_id,
    "recordedAt",
    metric,
    value,
    severity,
    _partition_id,
    _partition_offset
FROM bronze.fleet
