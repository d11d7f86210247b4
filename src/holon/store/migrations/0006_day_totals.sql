-- What all agents together spent on a day, in one row: the home's daily limit is asked for before every turn.

INSERT INTO cost_days (day, agent_id, model_ref, section, calls, fresh, cache_read, cache_written, output, nanodollars)
SELECT day, '', '', '', SUM(calls), SUM(fresh), SUM(cache_read), SUM(cache_written), SUM(output), SUM(nanodollars)
FROM cost_days WHERE section = '' GROUP BY day;
