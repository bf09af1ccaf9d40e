/*
 * template.h
 *	  The grammar of key templates (table.h), without columns: names and literals only.
 */
#ifndef ZARIS_FDW_TEMPLATE_H
#define ZARIS_FDW_TEMPLATE_H

#include "postgres.h"

#include "nodes/pg_list.h"

typedef struct ZarisTemplateWord
{
	bool  is_column;
	char *text; /* a column's name, or literal text with "<<" resolved; NUL-terminated */
	int	  len;
} ZarisTemplateWord;

/*
 * A template's words in order, palloc'd; literals are never empty, and two columns never touch.  NIL when the text
 * is no template: *problem is a static sentence then.
 */
extern List *zaris_template_words(const char *text, const char **problem);

#endif /* ZARIS_FDW_TEMPLATE_H */
