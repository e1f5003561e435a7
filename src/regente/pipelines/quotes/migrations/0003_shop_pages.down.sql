CREATE OR REPLACE FUNCTION regente.quote_resume_data(quote_id bigint) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT coalesce(jsonb_object_agg(kept.name, kept.value), '{}')
  FROM (SELECT n.name, s.output::jsonb AS value
        FROM (VALUES ('AI_ANALYSIS_DONE', 'claude_payload_json'),
                     ('SHOPPING_SEARCH_DONE', 'google_shopping_response_json'),
                     ('FIPE_SEARCH', 'fipe_response_json')) AS n (step, name)
        JOIN regente.steps s ON s.task_id = quote_id AND s.name = n.step AND s.item = -1
        UNION ALL
        SELECT 'tested_products', jsonb_agg(s.output::jsonb ORDER BY s.item)
        FROM regente.steps s
        WHERE s.task_id = quote_id AND s.name = 'PRICE_EXTRACTION_PROGRESS' AND s.item >= 0
        HAVING count(*) > 0) AS kept
$$;
