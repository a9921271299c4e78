SELECT
    id,
    amount,
    len(items)  AS items,
    buyer.name  AS buyer,
    buyer.new   AS is_new,
    placed_at,
    _partition_id,
    _partition_offset
FROM bronze.orders
