/*
 * template.c
 *	  The grammar of key templates: 'session:<id>', 'order:<customer>:<number>', 'a<<b:<id>'.
 */
#include "postgres.h"

#include "fdw/table.h"
#include "fdw/template.h"

static ZarisTemplateWord *
make_word(bool is_column, const char *text, int len)
{
	ZarisTemplateWord *word = palloc(sizeof(*word));

	word->is_column = is_column;
	word->text = pnstrdup(text, len);
	word->len = len;
	return word;
}

/* Literal text up to a column or the end; "<<" stands for one "<". */
static const char *
take_literal(const char *at, StringInfo literal)
{
	while (*at != '\0')
	{
		if (at[0] == '<' && at[1] != '<')
			break;
		appendStringInfoChar(literal, *at);
		at += at[0] == '<' ? 2 : 1;
	}
	return at;
}

static bool
has_column(List *words, const char *name)
{
	ListCell *cell;

	foreach (cell, words)
	{
		ZarisTemplateWord *word = lfirst(cell);

		if (word->is_column && strcmp(word->text, name) == 0)
			return true;
	}
	return false;
}

/* "<name>" at *at, checked against the words before it; moves *at behind it. */
static ZarisTemplateWord *
take_column(const char **at, List *words, const char **problem)
{
	const char		  *name = *at + 1;
	const char		  *end = strchr(name, '>');
	ZarisTemplateWord *word;

	if (end == NULL)
	{
		*problem = "A \"<\" begins a column's name that no \">\" ends; write \"<<\" for a literal \"<\".";
		return NULL;
	}
	if (end == name || end - name >= NAMEDATALEN)
	{
		*problem = "A column's name between \"<\" and \">\" is empty or too long.";
		return NULL;
	}
	word = make_word(true, name, (int) (end - name));
	if (has_column(words, word->text))
	{
		*problem = "A column is named twice.";
		return NULL;
	}
	*at = end + 1;
	return word;
}

List *
zaris_template_words(const char *text, const char **problem)
{
	List *words = NIL;
	bool  any_column = false;
	bool  after_column = false;

	while (*text != '\0')
	{
		StringInfoData	   literal;
		ZarisTemplateWord *word;

		initStringInfo(&literal);
		text = take_literal(text, &literal);
		if (literal.len > 0)
		{
			words = lappend(words, make_word(false, literal.data, literal.len));
			after_column = false;
		}
		pfree(literal.data);
		if (*text == '\0')
			break;
		if (after_column)
		{
			*problem = "Between two columns there must be literal text that tells where the first one ends.";
			return NIL;
		}
		word = take_column(&text, words, problem);
		if (word == NULL)
			return NIL;
		words = lappend(words, word);
		any_column = after_column = true;
	}
	if (!any_column)
	{
		*problem = "The template names no column; columns are written <name>.";
		return NIL;
	}
	return words;
}

bool
zaris_template_check(const char *text, const char **problem)
{
	List *words = zaris_template_words(text, problem);

	if (words == NIL)
		return false;
	list_free_deep(words); /* the texts are small and go with the context */
	return true;
}
